"""Views: the terminal, figures, the notebook and one offline page, all of the same labelled attention."""

from overt.views.view import View, show

__all__ = ["View", "show"]
