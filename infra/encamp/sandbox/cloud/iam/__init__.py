"""IAM of the sandbox: policies, what they give to whom, and what Google refuses of them."""
