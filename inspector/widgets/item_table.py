"""`ItemTable`: a table of items that are all in memory. It sorts them, and its cursor stays at its item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..tables import ItemSource, Mark, Shown
from .lazy_table import LazyTable

T = TypeVar("T")


class ItemTable(LazyTable, Generic[T]):
    """A table of items. items: as they are shown, sorted."""

    def __init__(
        self,
        shown: Sequence[Shown[T]],
        look: Callable[[T], tuple[str, str]],
        marks: Callable[[T, tuple[str, ...]], tuple[Mark, ...]] | None = None,
        name: Callable[[T], object] = id,
    ) -> None:
        """Prepare the table. name: what tells an item from others, also when its values have changed."""
        super().__init__(shown)
        self.items: Sequence[T] = ()
        self.source = ItemSource(lambda first, count: self.items[first : first + count], shown, look, marks)
        self._given: Sequence[T] = ()
        self._key_of = name

    @property
    def current(self) -> T | None:
        """The item under the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def chosen_items(self) -> list[T]:
        """Return the marked items, or else the one under the cursor."""
        return [self.items[row] for row in sorted(self.marked) or [self.cursor] if row < len(self.items)]

    def show_items(self, items: Sequence[T], at: object = None) -> None:
        """Show other items, or more of the same list.

        Args:
            items: The items.
            at: The name of the item that the cursor goes to; None: it stays at its item.
        """
        if items is self._given and self.sorted_by is None:
            self.grow(len(items))
            self.refresh()
            return
        current, self._given = self.current, items
        wanted = self._key_of(current) if at is None and current is not None else at
        if self.sorted_by is not None:
            column, reverse = self.sorted_by
            items = sorted(items, key=self.source.shown[column].sort_key, reverse=reverse)
        self.items = items
        place = next((i for i, item in enumerate(items) if self._key_of(item) == wanted), 0)
        self.show(self.source.rows, len(items), cursor=self.cursor if wanted is None else place)

    def on_lazy_table_sort_wanted(self, message: LazyTable.SortWanted) -> None:
        self.show_sorted(message.column, message.reverse)
        given, self._given = self._given, ()
        self.show_items(given)
