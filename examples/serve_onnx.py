"""Serve an exported operator with ONNX Runtime alone: no torch and no halfwave in the process.

    halfwave export runs/darcy --format onnx
    python examples/serve_onnx.py runs/darcy/model.onnx fields.npy answers.npy

`fields.npy` holds float32 fields (N, C, *grid) in the units of the training data; so do the answers.
"""

import sys
import time

import numpy as np
import onnxruntime


def main(model: str, fields: str, answers: str, batch: int = 8) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = np.load(fields, mmap_mode="r")
    began = time.perf_counter()
    parts = [
        session.run(["y"], {"x": np.ascontiguousarray(x[i : i + batch], dtype=np.float32)})[0]
        for i in range(0, len(x), batch)
    ]
    np.save(answers, np.concatenate(parts))
    print(f"{len(x)} fields in {time.perf_counter() - began:.2f} s, torch loaded: {'torch' in sys.modules}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
