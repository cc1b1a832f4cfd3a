"""What the documentation site makes of the rest of the repository (a hook of mkdocs.yml).

The reference of the command line, of recipes and of the Python API, the pages that stand at the root, and a page for
each source file that another page links to.
"""

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from os.path import normpath, relpath
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
import yaml
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic.fields import FieldInfo
from typer.cli import get_docs_for_click

from ratchet.cli.main import app
from ratchet.data_curation.base.section import Section
from ratchet.infra.inference.engine import ENGINES, InferenceEngine
from ratchet.infra.keys import not_in_key
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.load import read_recipe, shipped_recipes
from ratchet.verifiers.instructions.ifbench import IFBENCH
from ratchet.verifiers.instructions.ifeval import IFEVAL

ROOT = Path(__file__).resolve().parents[2]
AT_ROOT = {
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}  # fmt: skip
PAGE_OF = {"cli": "reference/cli.md", "infra/recipe": "reference/recipe.md", "recipes": "reference/recipes.md"}
"""Directories that pages link to, and the page that is about them."""
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"^( *)\$\$(.+?)\$\$$", re.MULTILINE)
"""A formula on a line of its own: as MathML, which browsers show without a script from elsewhere."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and point every link at what the site has."""
    pages = {file.src_uri: (file.content_string, f"docs/{file.src_uri}") for file in files.documentation_pages()}
    pages |= {page: ((ROOT / source).read_text(), source) for source, page in AT_ROOT.items()}
    generated = {
        "reference/cli.md": cli(), "reference/recipe.md": recipe(), "reference/recipes.md": recipes(),
        "reference/api.md": api(), "reference/instruction_kinds.md": instruction_kinds(),
    }  # fmt: skip
    pages |= {page: (text, f"docs/{page}") for page, text in generated.items()}
    linked: set[str] = set()
    for page, (text, source) in pages.items():
        parts = FENCE.split(text)
        parts[0] = "---\nhide: [navigation]\n---\n" * (page == "index.md") + parts[0]
        parts[::2] = [LINK.sub(partial(_on_site, source, page, linked), part) for part in parts[::2]]
        parts[::2] = [
            FORMULA.sub(lambda formula: formula[1] + convert(formula[2], display="block"), part) for part in parts[::2]
        ]
        parts[1::2] = [block.replace(" no-run\n", "\n", 1) for block in parts[1::2]]  # for tests, and no language
        _put(files, config, page, "".join(parts))
    for source in sorted(linked):
        language = {".py": "python", ".yaml": "yaml"}.get(Path(source).suffix, "text")
        code = f"````{language}\n{(ROOT / source).read_text()}````"
        _put(files, config, f"source/{source}.md", f"---\nsearch: {{exclude: true}}\n---\n# {source}\n\n{code}\n")
    return files


def on_page_content(html: str, page: Page, config: Any, files: Files) -> None:
    """Refuse a page on which a fence of code is text."""
    if "<p>```" in html:
        raise PluginError(f"{page.file.src_uri}: a block of code is not read as one; its fence is ```LANGUAGE alone")


def _put(files: Files, config: Any, page: str, text: str) -> None:
    if existing := files.get_file_from_path(page):
        existing.content_string = text
    else:
        files.append(File.generated(config, page, content=text))


def _on_site(source: str, page: str, linked: set[str], link: re.Match[str]) -> str:
    """A link of the repository's file `source` as the page of the site that is made of it has it. What else the site
    needs a page for is added to `linked`."""
    target = normpath(Path(source).parent / link[0])
    if target in AT_ROOT:
        target = AT_ROOT[target]
    elif target in PAGE_OF:
        target = PAGE_OF[target]
    elif target.startswith("docs/"):
        target = target.removeprefix("docs/")
    elif (ROOT / target).is_file():
        linked.add(target)
        target = f"source/{target}.md"
    else:
        raise PluginError(f"{source}: the link {link[0]} leads to {target}, which is not in the repository")
    return relpath(target, Path(page).parent)


def cli() -> str:
    """Every command with its arguments and options, as typer writes them; the list of commands with whole sentences."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="ratchet")
    text = get_docs_for_click(obj=command, ctx=context, name="ratchet").replace("# `ratchet`", "# Command line", 1)
    listed = [
        f"- [`ratchet {name}`](#ratchet-{name}): {command.get_command(context, name).get_short_help_str(200)}"
        for name in command.list_commands(context)
    ]
    before, _, after = text.partition("**Commands**:\n")
    return f"{before}**Commands**:\n\n" + "\n".join(listed) + "\n\n" + after[after.index("## ") :]


PUBLIC = {
    "ratchet.api": "Everything together; needs `ratchet-rl`.",
    "ratchet.data_curation": "Curation alone; needs `ratchet-curation`.",
    "ratchet.verifiers": "Verdicts alone; needs `ratchet-verifiers`.",
}


def api() -> str:
    """What each public package exports: signature and docstring, a class with its fields and methods."""
    lines = [
        "# Python API", "",
        "What can be imported from Python. [Ratchet from Python](../howto/python.md) has examples that run.", "",
    ]  # fmt: skip
    shown: dict[Any, str] = {}
    for module, needs in PUBLIC.items():
        lines += [f"## {module}", "", needs, ""]
        for name in importlib.import_module(module).__all__:
            member = getattr(importlib.import_module(module), name)
            lines += [f"### {module.removeprefix('ratchet.')}.{name}", ""]
            if member in shown:
                lines += [f"The same as [{shown[member]}](#{shown[member].lower().replace('.', '')}).", ""]
                continue
            shown[member] = f"{module.removeprefix('ratchet.')}.{name}"
            lines += [*_signature(name, member), _docstring(member), ""]
            lines += _methods(member) if inspect.isclass(member) else []
    return "\n".join(lines)


def _signature(name: str, member: Any) -> list[str]:
    """As code; nothing for an enumeration or an exception, whose constructor nobody calls."""
    if inspect.isclass(member) and issubclass(member, (Enum, BaseException)):
        return []
    signature = inspect.signature(member)
    shown = str(signature)
    if len(shown) > 90:
        inside = "".join(f"\n    {parameter}," for parameter in signature.parameters.values())
        shown = f"({inside}\n)" + shown.rpartition(")")[2]
    shown = re.sub(r"\b(ratchet|collections|pathlib|pyarrow|typing)\.([a-z_]+\.)*", "", f"{name}{shown}")
    return ["```python", re.sub(r"= (\w+)\([^()]*\)", r"= \1()", shown), "```", ""]


def _docstring(member: Any) -> str:
    return re.sub(r"\bdocs/([\w/]+)\.md", _page_link, inspect.getdoc(member) or "")


def _methods(member: type) -> list[str]:
    """The class's own public methods with the first line of their docstrings; an enumeration's values."""
    if issubclass(member, Enum):
        return [*(f"- `{each.value}`" for each in member), ""]
    lines = []
    for name, found in vars(member).items():
        plain = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if not name.startswith("_") and inspect.isfunction(plain) and plain.__doc__:
            named = list(inspect.signature(plain).parameters)
            parameters = ", ".join(named if isinstance(found, staticmethod) else named[1:])
            lines.append(f"- `{name}({parameters})`: {_text(plain.__doc__.partition(chr(10) * 2)[0])}")
    return [*lines, ""]


def instruction_kinds() -> str:
    """Each kind with its arguments, from the code, and what a response must do, from a file beside this one."""
    words = yaml.safe_load((ROOT / "docs/tools/instruction_kinds.yaml").read_text())
    lines = [
        "# Kinds of instructions", "",
        "The domain [instructions](instructions.md) judges these. Optional arguments are in brackets. IFBench's",
        "sentences and tokens are NLTK's (3.9.2); a *word* stands between spaces, a *plain word* is one without ASCII",
        "punctuation and in lowercase. In italics: where IFBench's code demands another thing than its prompt.", "",
    ]  # fmt: skip
    for title, kinds in (("IFEval", IFEVAL), ("IFBench", IFBENCH)):
        lines += [f"## {title}", "", "| id | arguments | followed if the response |", "|---|---|---|"]
        for name, kind in kinds.items():
            arguments = ", ".join(
                [*(f"`{each}`" for each in kind.arguments), *(f"[`{each}`]" for each in kind.optional)]
            )
            said = words[title.lower()][name].replace("|", "\\|")
            lines.append(f"| `{name}` | {arguments} | {said.removeprefix('it ')} |")
        lines.append("")
    return "\n".join(lines)


def recipe() -> str:
    """Every section of a recipe, with each field's type, default and meaning; rarely needed ones are folded."""
    lines = [
        "# Recipe fields", "",
        "A recipe is one YAML file. Unknown keys are errors that name the nearest valid key. `ratchet show NAME`",
        "prints a shipped recipe with all that it extends, and `--full` adds every default.", "",
        "Fields marked ° only say where or how fast work is done. They are part of no artifact's key: changing one",
        "runs nothing again. Rarely needed fields are in a section's `advanced`, folded here.", "",
    ]  # fmt: skip
    sections = list(_sections(Recipe, "", []))
    anchors = {section: f"#{re.sub(r'[^a-z_-]', '', path.lower().replace(' ', '-'))}" for path, section in sections}
    for path, section in sections:
        fields = own_fields(section, list(anchors))
        lines += [f"## {path or 'The whole recipe'}", "", _text(section.__doc__ or ""), ""]
        if section.__mro__[1] in anchors:
            lines += [f"It has all fields of [the section it is like]({anchors[section.__mro__[1]]}), and:", ""]
        table = ["| field | type | default | |", "|---|---|---|---|"]
        for name in fields:
            field = section.model_fields[name]
            mark = " °" if not_in_key(field) else ""
            default = _default(field, anchors)
            table.append(f"| `{name}`{mark} | {_type(field.annotation)} | {default} | {_text(field.description)} |")
        if ".advanced" in path:
            table = [f'??? note "{len(fields)} rarely needed fields"', "", *(f"    {row}" for row in table)]
        lines += [*table, ""]
    return "\n".join(lines)


def own_fields(section: type[Section], listed: Sequence[type[Section]]) -> list[str]:
    """Its fields, without `advanced` and those that it has from a section that is listed as well."""
    own = section.__annotations__ if section.__mro__[1] in listed else section.model_fields
    return [name for name in section.model_fields if name in own and name != "advanced"]


def _sections(section: type[Section], path: str, listed: list[type]) -> Iterator[tuple[str, type[Section]]]:
    """Each section once, under the first place where it stands in a recipe."""
    listed.append(section)
    yield path, section
    for name, field in section.model_fields.items():
        for inner in _inside(field.annotation):
            if inner not in listed:
                many = {tuple: "[]", dict: ".NAME"}.get(get_origin(field.annotation), "")
                yield from _sections(inner, f"{path}.{name}{many}".strip("."), listed)
                yield from _engines(f"{path}.{name}") if inner is InferenceEngine else ()


def _engines(path: str) -> Iterator[tuple[str, type[Section]]]:
    """The shipped ones that have settings of their own."""
    for kind in ENGINES.shipped:
        if ENGINES.get(kind).model_fields.keys() != InferenceEngine.model_fields.keys():
            yield f"{path}, kind: {kind}", ENGINES.get(kind)


def _inside(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _inside(argument)


def _type(annotation: Any) -> str:
    """A field's type in words: `list of str`, `float | none`."""
    if annotation is type(None):
        return "none"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "section"
    if not (arguments := get_args(annotation)):
        return getattr(annotation, "__name__", str(annotation))
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if hasattr(annotation, "__metadata__"):  # Annotated
        return _type(arguments[0])
    names = [_type(argument) for argument in arguments if argument is not Ellipsis]
    if origin is dict:
        return f"mapping of {names[1]}"
    if origin is tuple:
        return f"list of {names[0]}" if Ellipsis in arguments else f"[{', '.join(names)}]"
    return " or ".join(dict.fromkeys(names))


def _default(field: FieldInfo, anchors: Mapping[type[Section], str]) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Section):
        return f"[section]({next(anchors[kind] for kind in type(value).__mro__ if kind in anchors)})"
    if value in (None, (), {}, ""):
        return "none" if value is None else "empty"
    shown = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{shown.lower() if isinstance(value, bool) else shown}`"


def _text(words: str | None) -> str:
    """A docstring as one line of Markdown, the pages it names as links."""
    line = " ".join((words or "").split())
    return re.sub(r"\bdocs/([\w/]+)\.md", _page_link, line)


def _page_link(page: re.Match[str]) -> str:
    return f"[{_title(page[1])}](../{page[1]}.md)"


@cache
def _title(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text().partition("\n")[0].removeprefix("# ")


def recipes() -> str:
    """What is shipped, with what each needs, and its text."""
    lines = ["# Shipped recipes", "", "`ratchet run NAME` runs one; `extends: NAME` builds on it.", ""]
    for name in shipped_recipes():
        data = read_recipe(name)
        lines += [f"## {name}", "", str(data.get("description", "")), "", f"*Needs:* {data.get('needs', '')}", ""]
        lines += [f'??? note "recipes/{name}.yaml"', "    ```yaml"]
        lines += [f"    {line}" for line in (ROOT / "recipes" / f"{name}.yaml").read_text().splitlines()]
        lines += ["    ```", ""]
    return "\n".join(lines)
