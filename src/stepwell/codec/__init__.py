"""Values ↔ bytes: typed JSON in a versioned envelope.

`base` is the contract, `json_codec` the answer to it, `signatures` reads a function's annotations and stores calls.
Nothing here imports by a stored name, evaluates text or reads pickles: stored bytes can only ever become the types
that the *code* names.
"""
