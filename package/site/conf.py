"""Configuration of Sphinx for the site. ``build.py`` stages the pages and runs it."""

import gc
import os
from pathlib import Path

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
html_css_files = ["page-menu.css", "pages.css"]
html_favicon = str(Path(os.environ["MODELPLANE_SITE_STATIC"]) / "favicon.svg")
html_js_files = [(name, {"defer": "defer"}) for name in ("page-menu.js", "scrollable.js", "cast.js")]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}

# Nothing is loaded from another host: the site works without the internet.
mermaid_use_local = "mermaid/mermaid.esm.min.mjs"
mermaid_fullscreen = False
mermaid_height = "auto"
copybutton_prompt_text = "$ "
