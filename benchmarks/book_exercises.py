"""Exercises of textbooks in CNXML (OpenStax) or PreTeXt, as data sets hold them: the instruction over a group of
them, then the exercise, formulas as LaTeX between dollars, pictures as Markdown has them.

    python -m benchmarks.book_exercises BOOK      as JSON lines with `problem` and `answer`
"""

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

_SIGNS = {
    "×": r"\times ", "÷": r"\div ", "⋅": r"\cdot ", "·": r"\cdot ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "π": r"\pi ", "θ": r"\theta ", "∞": r"\infty ", "−": "-", "–": "-", "\u2061": "", "\u2062": "", "°": r"^{\circ}",
    "√": r"\sqrt", "α": r"\alpha ", "β": r"\beta ", "∠": r"\angle ", "△": r"\triangle ", "∫": r"\int ", "∑": r"\sum ",
    "→": r"\to ", "\u00a0": " ", "%": r"\%", "$": r"\$", "∪": r"\cup ", "∩": r"\cap ", "±": r"\pm ", "∈": r"\in ",
}  # fmt: skip
_FUNCTIONS = {"sin", "cos", "tan", "sec", "csc", "cot", "log", "ln", "lim", "max", "min", "arcsin", "arccos", "arctan"}
_WITH_PARTS = {
    "mfrac": r"\frac{%s}{%s}", "msup": "%s^{%s}", "msub": "%s_{%s}", "msubsup": "%s_{%s}^{%s}", "munder": "%s_{%s}",
    "munderover": "%s_{%s}^{%s}",
}  # fmt: skip
_GROUP = re.compile(
    r"^(?:in|for) (?:each of )?the (?:following|next)\b.{0,40}\b(?:exercises?|problems?|questions?)\b\s*,?\s*",
    re.IGNORECASE,
)


Exercise = tuple[str, str | None]
"""Its text, and its solution where the book prints one."""


def exercises(book: Path) -> Iterator[Exercise]:
    """The exercises in all `.cnxml` and `.ptx` files below a directory. A file that is no XML is passed over."""
    for path in sorted(book.rglob("*")):
        if path.suffix in (".cnxml", ".ptx", ".mbx", ".xml") and "generated" not in str(path.relative_to(book)):
            try:
                root = ET.parse(path).getroot()
            except ET.ParseError:
                continue
            yield from _of_cnxml(root) if path.suffix == ".cnxml" else _of_pretext(root)


def _of_cnxml(root: ET.Element) -> Iterator[Exercise]:
    instruction = ""

    def walk(element: ET.Element) -> Iterator[Exercise]:
        nonlocal instruction
        for child in element:
            match _tag(child):
                case "section":
                    instruction = ""
                    yield from walk(child)
                case "para":
                    text = _tidy(_cnxml(child))
                    if text:
                        instruction = text if _GROUP.match(text) else ""
                    yield from walk(child)
                case "exercise":
                    problem = child.find("{*}problem")
                    if problem is not None and (text := _tidy(_cnxml(problem))):
                        solution = child.find("{*}solution")
                        answer = None if solution is None else _tidy(_inside(solution)) or None
                        yield _under(_GROUP.sub("", instruction), text), answer
                case _:
                    yield from walk(child)

    yield from walk(root)


def _of_pretext(root: ET.Element) -> Iterator[Exercise]:
    parents = {child: parent for parent in root.iter() for child in parent}
    for exercise in root.iter("exercise"):
        group: ET.Element | None = parents.get(exercise)
        while group is not None and _tag(group) != "exercisegroup":
            group = parents.get(group)
        introduction = group.find("introduction") if group is not None else None
        instruction = _tidy(_pretext(introduction)) if introduction is not None else ""
        statement = exercise.find("statement")
        if statement is None:
            statement = exercise.find("webwork/statement")
        if statement is not None and (text := _tidy(_pretext(statement))):
            answer = exercise.find("answer")
            shown = None if answer is None else _tidy(_pretext_inside(answer)) or None
            yield _under(re.sub(r"^In (?:the following )?[Ee]xercises?[^,]{0,60},\s*", "", instruction), text), shown


def _under(instruction: str, text: str) -> str:
    return f"{instruction[:1].upper()}{instruction[1:]}\n\n{text}".strip() if instruction else text


def _tag(element: ET.Element) -> str:
    return element.tag.split("}")[-1] if isinstance(element.tag, str) else ""


def _tidy(text: str) -> str:
    for pattern, plain in (
        (r"[ \t]+", " "), (r" ?\n ?", "\n"), (r"\n{2,}", "\n\n"), (r" ([.,;:?!)])", r"\1"), (r"\( (?=\$)", "("),
    ):  # fmt: skip
        text = re.sub(pattern, plain, text)
    return text.strip()


def _math(element: ET.Element) -> str:
    tag, parts = _tag(element), [_math(child) for child in element if isinstance(child.tag, str)]
    text = "".join(_SIGNS.get(sign, sign) for sign in " ".join((element.text or "").split()))
    match tag:
        case "mi":
            if text in _FUNCTIONS:
                return f"\\{text} "
            return text if len(text) < 2 or text.startswith("\\") else rf"\text{{{text}}}"
        case "mn" | "mo":
            return text
        case "mtext":
            text = re.sub(r"\s+", " ", (element.text or "").replace("\u00a0", " "))
            return rf"\text{{{text}}}" if text.strip() else " "
        case "mspace":
            return " "
        case "annotation" | "annotation-xml":
            return ""
        case "msqrt":
            return rf"\sqrt{{{''.join(parts)}}}"
        case "menclose" if element.get("notation") == "longdiv":
            return rf"\overline{{){''.join(parts)}}}"
        case "mroot" if len(parts) == 2:
            return rf"\sqrt[{parts[1]}]{{{parts[0]}}}"
        case "mover" if len(parts) == 2:
            bar = (list(element)[1].text or "").strip()
            return rf"\overline{{{parts[0]}}}" if bar and bar in "¯‾—" else rf"\overset{{{parts[1]}}}{{{parts[0]}}}"
        case "mfenced":
            fenced = rf"\left{element.get('open', '(') or '.'}{','.join(parts)}\right{element.get('close', ')') or '.'}"
            return fenced.replace("\\left{", "\\left\\{").replace("\\right}", "\\right\\}")
        case "mtable":
            return r"\begin{array}{l}" + r" \\ ".join(parts) + r"\end{array}"
        case "mtr":
            return " & ".join(parts)
    form = _WITH_PARTS.get(tag, "")
    return form % tuple(parts) if form and form.count("%s") == len(parts) else "".join(parts)


def _cnxml(element: ET.Element) -> str:
    tag = _tag(element)
    match tag:
        case "math":
            formula = re.sub(r"\s+", " ", _math(element)).strip()
            return f" ${formula}$ " if formula else " "
        case "media" | "image":
            image = element.find(".//{*}image")
            return f" ![]({image.get('src') if image is not None else 'figure.jpg'}) "
        case "solution" | "commentary" | "title":
            return ""
        case "link" if not "".join(element.itertext()).strip():
            target = element.get("target-id") or ""
            return "Figure 1" if "igure" in target else "Table 1" if "able" in target else "the text"
        case "newline":
            return "\n"
        case "item":
            return "\n- " + _inside(element).strip()
        case "tgroup" | "table":
            rows = (" | ".join(_inside(cell).strip() for cell in row) for row in element.iter() if _tag(row) == "row")
            return "\n" + "".join(f"\n{row}" for row in rows) + "\n"
    text = _inside(element)
    return f"\n{text}\n" if tag in ("para", "note", "equation", "list", "problem", "figure") else text


def _inside(element: ET.Element) -> str:
    return re.sub(r"\s+", " ", element.text or "") + "".join(
        _cnxml(child) + re.sub(r"\s+", " ", child.tail or "") for child in element if isinstance(child.tag, str)
    )


def _pretext(element: ET.Element) -> str:
    tag = _tag(element)
    match tag:
        case "m":
            return f"${''.join(element.itertext()).strip()}$"
        case "me" | "men" | "md" | "mdn":
            return f"\n$${''.join(element.itertext()).strip()}$$\n"
        case "image":
            return f" ![]({element.get('source') or 'figure.svg'}) "
        case "solution" | "answer" | "hint" | "title" | "shortdescription" | "description" | "response" | "idx":
            return ""
        case "webwork" | "pg-code" | "caption" | "notation":
            return ""
        case "xref":
            return "Figure 1" if "fig" in (element.get("ref") or "") else "Exercise 1"
        case "fillin":
            return "____"
    parts = [_pretext(child) + re.sub(r"\s+", " ", child.tail or "") for child in element if isinstance(child.tag, str)]
    text = re.sub(r"\s+", " ", element.text or "") + "".join(parts)
    match tag:
        case "li":
            return "\n- " + text.strip()
        case "q":
            return f'"{text}"'
        case "row":
            return "\n" + " | ".join(_pretext_inside(cell) for cell in element)
    block = ("p", "statement", "ol", "ul", "task", "introduction", "tabular", "figure", "sidebyside")
    return f"\n{text}\n" if tag in block else text


def _pretext_inside(cell: ET.Element) -> str:
    cell.tag = "cell"
    return _pretext(cell).strip()


def main() -> None:
    for text, answer in exercises(Path(sys.argv[1])):
        print(json.dumps({"problem": text, "answer": answer}, ensure_ascii=False))


if __name__ == "__main__":
    main()
