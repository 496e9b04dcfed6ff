"""The services of the sandbox's Google Cloud, a folder or a module each: what Google's REST APIs take and answer."""
