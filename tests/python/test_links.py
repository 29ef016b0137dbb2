"""Links in the documentation resolve, and examples that are shown twice are the same."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = {"target", "node_modules", ".venv-bench", ".git"}
PAGES = sorted(page for page in ROOT.rglob("*.md") if not SKIPPED & set(page.relative_to(ROOT).parts))


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts derive them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_and_anchors_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", without_code(page.read_text("utf-8"))):
        link = target[0] or target[1]
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.relative_to(ROOT)}: {link}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.relative_to(ROOT)}: {link}"


def test_rust_example_of_the_readme_is_the_doctest_of_acrl_exact() -> None:
    def example(page: Path) -> str:
        found: list[str] = re.findall(r"```rust\n(.*?)```", page.read_text("utf-8"), re.S)
        assert len(found) == 1
        return found[0]

    assert example(ROOT / "README.md") == example(ROOT / "crates" / "acrl-exact" / "README.md")


def test_prose_of_reference_pages_is_wrapped() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if page.name in {"cli.md", "json.md", "python.md"}:
            continue
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
        for line in text.splitlines():
            assert len(line) <= 110 or line.startswith(("|", "#", "<", "![", "    ")), f"{page.name}: {line}"
