"""`ratchet curate --check`: how the rows of a source are read."""

from collections.abc import Mapping, Sequence

from ratchet.cli.terminal import clean, console, output, print_json


def show_previews(sources: Sequence[str], domain: str, columns: Mapping[str, str]) -> None:
    from ratchet.data_curation.preview import preview_sources  # pyarrow and numpy: --help must not wait for them

    previews = [preview for source in sources for preview in preview_sources(source, domain, columns)]
    if output.json:
        print_json([preview.as_json() for preview in previews])
        return
    for preview in previews:
        for line in preview.lines():
            text = clean(line)
            text.stylize("yellow" if line.startswith("!") else "dim" if line.startswith("      ") else "")
            console.print(text, soft_wrap=True)
