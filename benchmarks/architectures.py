"""Support of each architecture of transformers: `training.model_support` over all of them.

    python -m benchmarks.architectures [--write docs/evidence/architectures.md] [NAME …]

Each architecture in a process of its own with 7 GiB and 60 seconds, from the default configuration; ten minutes in all.
Exit code 1 if fewer than 60 are right in every way.
"""

import argparse
import multiprocessing
import resource
import sys
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ratchet.training.model_support import Support, support
from ratchet.verifiers.errors import RatchetError

LEAST, MEMORY, SECONDS = 60, 7 << 30, 60
FORK = multiprocessing.get_context("fork")
ENCODERS = {
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "blt", "git", "marian", "mbart", "musicgen",
    "musicgen_melody", "mvp", "pegasus", "plbart", "prophetnet", "speech_to_text_2", "trocr", "whisper",
    "xlm-prophetnet",
}  # fmt: skip
"""Decoders of models that also have an encoder, and one over bytes: not the models this is for."""
HEAD = """# Architectures

- {right} of {all} architectures of transformers {version} are computed right in every way: by the engine, and trained
  padded and packed.
- What is not right is refused when a run is planned, with the reason given here, never trained or sampled.
- Right means within 0.001 nats of the model's own forward pass, on a small model with random weights, sequences beyond
  a sliding window and neighbors of other lengths ([how](../reference/engines.md#a-model-is-used-as-it-is)).

    python -m benchmarks.architectures --write docs/evidence/architectures.md

| architecture | transformers engine | trained, padded | trained, packed |
|---|---|---|---|
"""


def measured(name: str) -> Support:
    """The support, checked in a process of its own: some need more memory or time than a check may take."""
    reader, writer = FORK.Pipe(duplex=False)
    child = FORK.Process(target=check, args=(name, writer))
    child.start()
    writer.close()
    try:
        ways = reader.recv() if reader.poll(SECONDS) else ["not checked within a minute"] * 3
    except EOFError:
        ways = ["the check was killed"] * 3
    child.kill()
    child.join()
    return Support(*(" ".join(way.split()) for way in ways))


def check(name: str, writer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        found = support(CONFIG_MAPPING[name]())
        writer.send([found.engine, found.padded, found.packed])
    except Exception as error:  # each architecture has its own
        said = str(error) if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        writer.send([said] * 3)


def cell(way: str) -> str:
    return way.replace("|", "/")[:110] if way else "right"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    names = asked.names or sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - ENCODERS)
    rows, right = [], 0
    for name in names:
        found = measured(name)
        right += found == Support("", "", "")
        rows.append(f"| {name} | {cell(found.engine)} | {cell(found.padded)} | {cell(found.packed)} |")
        print(rows[-1], flush=True)
    print(f"{right} of {len(names)} are right in every way")
    if asked.write:
        head = HEAD.format(version=transformers.__version__, right=right, all=len(names))
        asked.write.write_text(head + "\n".join(rows) + "\n")
    if not asked.names and right < LEAST:
        sys.exit(1)


if __name__ == "__main__":
    main()
