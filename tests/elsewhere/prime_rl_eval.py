"""The `eval` command of the library `verifiers` over a file that we export: what each trace of it has. Or with
`refused` what is said about files that cannot be used."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import verifiers.v1 as library


def traces(directory: Path, options: list[str]) -> dict[int, dict]:
    """Traces by the number of their row."""
    output = ["--no-rich", "-c", "4", "--output-dir", directory, "--run.name", "run"]
    command = [Path(sys.executable).with_name("eval"), *options, *output]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (directory / "run" / "traces.jsonl").open()]
    return {trace["task"]["data"]["idx"]: trace for line in lines for trace in line["traces"]}


def about(trace: dict) -> dict:
    [message] = [node["message"] for node in trace["nodes"] if node["sampled"]]
    return {
        "ok": trace["ok"], "response": message.get("content") or "", "metrics": trace["metrics"],
        "reward": trace["rewards"]["ratchet"] and trace["rewards"]["ratchet"]["score"],
        "outcome": trace["info"].get("ratchet", {}).get("outcome"),
        "errors": [[error["type"], error["message"]] for error in trace["errors"]],
    }  # fmt: skip


def tasks(domain: str, file: str) -> int:
    name = f"ratchet-{domain}"
    config = library.taskset_config_type(name).model_validate({"id": name, "data": file})
    return len(list(library.load_taskset(config)))


def refused(domain: str, file: str) -> str:
    try:
        tasks(domain, file)
    except Exception as error:
        return str(error)
    return ""


if __name__ == "__main__" and sys.argv[1] == "refused":
    print(json.dumps([refused(*arguments.split(":")) for arguments in sys.argv[2:]]))
elif __name__ == "__main__":
    directory, file, *options = sys.argv[1:]
    made = traces(Path(directory), options)
    domains = Counter(json.loads(trace["task"]["data"]["ratchet_problem"])["domain"] for trace in made.values())
    assert {domain: tasks(domain, file) for domain in domains} == domains
    print(json.dumps({"domains": domains, "traces": {number: about(trace) for number, trace in made.items()}}))
