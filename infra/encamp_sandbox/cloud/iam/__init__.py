"""IAM of the sandbox: policies, the permissions that they give, and the policies that Google refuses."""
