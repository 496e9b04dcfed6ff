"""One Pulumi component a file. They make what a plan says and decide nothing."""
