"""Documentation for programs: parsed Markdown, a search, and the files ``llms.txt``.

The input is a mapping from the path of a page to its Markdown. No module here needs the MCP SDK.
"""
