"""Trains configs one after the other, as torchrun starts it: python train_many.py CONFIGS.json FOLDER."""

import json
import sys
from pathlib import Path

from halfwave.errors import InputError
from halfwave.training import TrainConfig, train


def train_many(configs, folder):
    for name, values in json.loads(Path(configs).read_text()).items():
        try:
            print(train(TrainConfig(**values), Path(folder) / name, quiet=True).status, flush=True)
        except InputError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    train_many(*sys.argv[1:])
