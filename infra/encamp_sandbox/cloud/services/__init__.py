"""The services of the sandbox's Google Cloud, a folder or a module each, in the form of Google's REST APIs."""
