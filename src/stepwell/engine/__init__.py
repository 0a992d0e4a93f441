"""Verbs on nouns: what a caller may ask of a store. No loops are here.

`backend` is what all nouns share. The nouns of an `Engine` are `runs`, `signals`, `events`, `repairs`, `holds`,
`outbox`, `bulks`, `workers`, `versions` and, for servers, `ledger`. Beside them:

- starting: `starts` (what a caller may say), `handles` (what it gets)
- waiting: `lookups`, `changes`, `results`, `watches`, `live`
- looking: `views`, `filters` and `terms`, `causes` and `explanations`, `figures`
- repairing: `repair_drafts`, `skips`, `forks`, `repair_plans`; `cancellations`
- many runs: `bulk_verbs`, `bulk_workflow`; `transfers` moves a whole store
"""
