"""The store contract: protocols only.

A method is one atomic transition in the words of the domain, with frozen inputs and outputs; nothing can happen
between its
check and its write. Time is the store's own (`Store.now`): no method takes an instant from the caller to compare with.
A method that raises `StoreUnavailableError` may or may not have taken effect, and repeating it with the same
arguments is safe.
Any other error means that nothing was written.
"""
