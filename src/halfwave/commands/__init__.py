"""The commands of the command line, one file each: a dataclass of options with a `run`."""

COMMANDS = {
    "demo": "the main job, small: Darcy data, full against mixed, a report",
    "data": "make a dataset with a real solver, in one HDF5 file",
    "train": "train a model by a recipe; resumes what was interrupted",
    "evaluate": "L2 and H1 errors of a trained operator, at any resolution",
    "rollout": "steps in time: error, spectra, an animation, half against full",
    "predict": "apply a trained operator to the fields of a file",
    "export": "a trained operator as ONNX, compiled program or web page",
    "view": "a run as one page: curves, fields, spectra, errors, certificate",
    "runs": "runs side by side, and the settings in which they differ",
    "bench": "this library against neuraloperator in one run, as ratios",
    "plan": "will it fit, how fast, is half precision safe, before a run",
    "profile": "where time and memory of a training step go, by module, by kernel",
    "reproduce": "the tables and figures of the paper, measured here",
    "report": "all results as one page, the paper's figures beside ours",
    "bounds": "what grid and number format can cost: bounds, and measured errors",
    "info": "versions, hardware, what runs native, caches, extras",
    "completion": "a script by which bash, zsh or fish completes all this",
}
"""What each does. A command is imported only when it is called: the list of them should not wait for torch."""
