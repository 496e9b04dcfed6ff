"""Messages to people by Apprise: addresses are read where they are needed, and no word of theirs comes back."""
