"""The program between the kubelet and a container: makes namespaces, then becomes the container's command.

It runs as ``python -S -m encamp_sandbox.kubelet.launcher``, imports nothing but the standard library and starts in
some 30 ms. It is given one verb: ``node`` makes the network that all pods hang on, ``pod`` the namespaces that the
containers of a pod share, ``mounts`` the file systems that they share, ``container`` runs one. All but the last
leave no process behind: they hand namespaces to the kubelet as open files, so that everything is gone when the
kubelet is. Linux only; it never needs more rights
than an ordinary user's user namespace gives.
"""
