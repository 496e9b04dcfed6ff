"""The process that keeps the sandbox's servers running: ``python -m encamp_sandbox.supervisor``.

It starts each as soon as what it needs is ready, starts again what ends, and writes down what happened. It owns
all of them: they die with it (on Linux by the kernel's hand), and it ends them in the reverse order.
"""
