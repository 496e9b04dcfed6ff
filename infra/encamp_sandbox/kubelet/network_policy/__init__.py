"""NetworkPolicies of pods, enforced as GKE's Dataplane V2 does.

``evaluation`` turns them into rules, ``filters`` puts a pod's rules into its kernel, and ``enforcer`` keeps them true
while pods and policies come and go.
"""
