"""Cloud calls outside the engine: objects, listings, deletions, and the Kubernetes API.

Google's REST APIs and the API server are spoken to directly, with the same code on Google Cloud and in the sandbox
(endpoints come from the variables that gcloud has for it). Owns transport, retries and the shapes of answers; decides
nothing about jobs, writes no state of its own, and never logs a header or a token.
"""
