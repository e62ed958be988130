"""What the theme leaves out for readers who use a keyboard or listen: levels of headings, and what scrolls sideways."""

CHANGES = (
    # A part of the navigation is a heading; without a level nobody knows which.
    ('role="heading"', 'role="heading" aria-level="2"'),
    # Code and tables may be wider than a screen: then arrow keys scroll them.
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    # Its entries are marked as works of a bibliography, which is not what a list may hold.
    ('<div role="list" class="citation-list">', '<div class="citation-list">'),
)


def amended(html):
    """The same HTML with those changes."""
    for old, new in CHANGES:
        html = html.replace(old, new)
    return html


def finish(app, page, template, context, doctree):
    """The page's text, and the navigation beside it."""
    for name in ("body", "toc", "furo_navigation_tree"):
        if isinstance(context.get(name), str):
            context[name] = amended(context[name])


def setup(app):
    """Sphinx calls this."""
    app.connect("html-page-context", finish, priority=900)  # the theme makes its navigation before
    return {"parallel_read_safe": True, "parallel_write_safe": True}
