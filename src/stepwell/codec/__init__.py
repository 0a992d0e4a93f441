"""Values ↔ bytes: typed JSON in a versioned envelope, and layers around it.

`base` is the contract and `json_codec` implements it; `signatures` reads a function's annotations and stores calls.
Layers (`layers`) change payloads and leave values to the inner codec: `encryption` encrypts them and binds each to its
row, `offload` keeps large ones as `blobs`. `addressed` seals a signal for a run that its sender knows only by key.
`envelopes` shows what is readable of a payload without its codec. `upcasters` read old shapes. `secret` is a type that
is stored only encrypted.

Nothing here imports by a stored name, evaluates text or reads pickles: stored bytes can only become types that the
*code* names.
"""
