"""Formulas as MathML, made while the site is built: no script and no font is fetched to show them."""

from latex2mathml.converter import convert


def inline(self, node):
    """A formula in a line of text."""
    self.body.append(convert(node.astext()))
    return skip()


def block(self, node):
    """A formula on a line of its own."""
    self.body.append(f'<div class="formula" tabindex="0">{convert(node.astext(), display="block")}</div>')
    return skip()


def skip():
    """The formula is written; its TeX is not."""
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app):
    """Sphinx calls this."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
