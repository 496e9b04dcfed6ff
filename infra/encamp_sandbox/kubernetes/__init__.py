"""Our ``kubernetes`` provider: the official plugin's behaviour on its type tokens, for machines that lack it.

What it does follows pulumi-kubernetes 4.29 and later (provider/pkg/{provider,await,metadata}): create by POST, so
that an existing object is an error; update by server-side apply under a field manager of the resource's own; diff of
the inputs against the live object's same fields as the state has them; delete with foreground propagation until the
object is gone; the same annotations and awaits. It refuses what encamp has no use for: Helm, Kustomize, YAML
components, List and Patch resources, client-side apply, rendering to YAML.
"""
