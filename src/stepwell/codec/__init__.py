"""Values ↔ bytes: typed JSON in a versioned envelope, and layers around it.

`base` is the contract, `json_codec` the answer to it, `signatures` reads a function's annotations and stores calls.
Layers (`layers`) change payloads and leave values to the codec within: `encryption` hides them and binds each to its
row, `offload` keeps large ones as `blobs`. `addressed` is how a signal is sealed for a run that its sender knows by key
only, `envelopes` what can be shown of a payload without its codec. `upcasters` read old shapes, `secret` is a type that
is stored only encrypted.

Nothing here imports by a stored name, evaluates text or reads pickles: stored bytes can only ever become the types
that the *code* names.
"""
