"""Configuration of Sphinx for the site. ``build.py`` stages the pages and runs it."""

import gc
import os
from pathlib import Path

from sphinx.application import Sphinx

# Pages are trees of many nodes, few of which are garbage: to look for it as often as usual takes a seventh
# of the time.
gc.set_threshold(100_000, 20, 20)

project = "Modelplane"
author = "the Modelplane authors"
copyright = author
html_title = "Modelplane"
version = release = os.environ["MODELPLANE_VERSION"]

extensions = ["myst_parser", "sphinx_copybutton", "sphinxcontrib.mermaid"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["files/**"]

# Anchors of headings are those of Git hosts, to which the pages link.
myst_heading_anchors = 4
myst_enable_extensions = ["alert", "attrs_block"]
myst_fence_as_directive = ["mermaid"]

html_theme = "furo"
html_static_path = [os.environ["MODELPLANE_SITE_STATIC"]]
templates_path = [os.environ["MODELPLANE_SITE_TEMPLATES"]]
html_css_files = ["look.css", "page-menu.css", "pages.css", "search.css"]
html_favicon = str(Path(os.environ["MODELPLANE_SITE_STATIC"]) / "favicon.svg")
html_js_files = [(name, {"defer": "defer"}) for name in ("page-menu.js", "scrollable.js", "cast.js")]
html_additional_pages = {"search": "search.html"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#4338ca",
        "color-brand-content": "#4338ca",
        "color-brand-visited": "#6d28a8",
        "color-link-underline": "#c7c9f4",
        "color-background-secondary": "#f7f7fc",
        "color-background-border": "#e4e4ee",
        "color-sidebar-background": "#fafafd",
        "color-mark": "#ffe8a3",
    },
    "dark_css_variables": {
        "color-brand-primary": "#a5b4fc",
        "color-brand-content": "#a5b4fc",
        "color-brand-visited": "#d0b3f5",
        "color-link-underline": "#4b5185",
        "color-background-primary": "#11131c",
        "color-background-secondary": "#191c28",
        "color-background-border": "#2a2e40",
        "color-sidebar-background": "#151824",
        "color-mark": "#5b4a12",
        "color-code-background": "#191c28",
    },
}

# Nothing is loaded from another host: the site works without the internet.
mermaid_use_local = "mermaid/mermaid.esm.min.mjs"
mermaid_fullscreen = False
mermaid_height = "auto"
copybutton_prompt_text = "$ "


def setup(app: Sphinx) -> None:
    """Leave out the search of Sphinx, for which the site has its own."""
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
