"""One side of a case, driven by lines of JSON on the standard input (see ../lib/side-process.ts)."""

import json
import os
import sys
import traceback


def serve(open_side, versions):
    """Opens the side with its settings, then answers each run with its sample.

    open_side(settings, threads) returns a function that makes one run and returns (seconds, values).
    versions() names what the side runs on. What libraries print goes to the error output.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf8")
    os.dup2(2, 1)
    run = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if "open" in request:
                run = open_side(request["open"]["settings"], request["open"]["threads"])
                reply = {"ready": versions()}
            else:
                seconds, values = run()
                reply = {"sample": {"seconds": seconds, "values": values}}
        except Exception:
            reply = {"error": traceback.format_exc()}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def torch_versions(*modules):
    """A function that names the versions of torch and of the given modules."""

    def versions():
        import importlib

        return {name: importlib.import_module(name).__version__ for name in ("torch", *modules)}

    return versions
