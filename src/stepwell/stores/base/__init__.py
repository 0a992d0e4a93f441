"""The store contract: protocols only.

A method is one atomic transition in the words of the domain, with frozen inputs and outputs. Nothing can happen between
its check and its write. Time is the store's own (`Store.now`): no method compares against an instant that the caller
passes in. A method that raises `StoreUnavailableError` may or may not have taken effect; repeating it with the same
arguments is safe. Any other error means that nothing was written.
"""
