"""GKE (container v1 and v1beta1): clusters and node pools as the API takes them, fills them in and changes them.

There is one real control plane in a sandbox, so there is one cluster at most; a second one is refused as if the
quota were used up. Deleting it takes it from the cloud's lists; the control plane itself runs on. Nodes of pools are
the kubelet's.
"""
