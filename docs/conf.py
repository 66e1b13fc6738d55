"""The site: lessons that run, guides, recipes and the reference, offline and without any script for mathematics."""

import re

import docutils.nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import overt

project = "overt"
author = "the authors of overt"
version = release = overt.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = "overt"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
# Summaries would be fetched, which no browser does from files.
html_show_search_summary = False
html_show_copyright = False

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
# As a page is read, so that its sentences can ask for numbers, by any expression: {eval}`f"{weights.max():.0%}"`.
nb_execution_mode = "inline"
nb_eval_name_regex = ""
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"


def inline(_: HTML5Translator, node: docutils.nodes.math) -> None:
    """A formula in a line, as MathML, which browsers know by themselves."""
    _.body.append(latex2mathml.tex2mathml(node.astext()))
    raise docutils.nodes.SkipNode


def display(_: HTML5Translator, node: docutils.nodes.math_block) -> None:
    """A formula in lines of its own."""
    _.body.append(f'<div class="math">{latex2mathml.tex2mathml(node.astext(), as_block=True)}</div>')
    raise docutils.nodes.SkipNode


def as_fields(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: "name: what it is" becomes a field, and a bar means itself."""
    field, done = False, list[str]()
    for line in lines:
        named = re.match(r"[a-z_]\w*: ", line)
        # A field begins after a paragraph, not within it.
        if named and not field and done and done[-1]:
            done.append("")
        field = bool(named) or (field and bool(line))
        literals = re.split(r"(``.*?``)", line)
        line = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in literals)
        done.append(f":{line}" if named else f"   {line}" if field else line)
    lines[:] = done


def setup(app: Sphinx) -> None:
    """Use docutils' own MathML for formulas."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.connect("autodoc-process-docstring", as_fields)


html_math_renderer = "mathml"
