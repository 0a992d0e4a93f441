-- What must hold of the rows in tables that much is written to. Users' databases have it without these constraints, which the
-- server would read from the catalogue's text for every statement.

alter table {t}.runs
add constraint status_is_known check (
    status in (
        'pending', 'running', 'waiting', 'paused', 'cancelling', 'compensating', 'compensation_failed',
        'completed', 'failed', 'compensated', 'cancelled', 'continued'
    )
),
add constraint ended_has_its_time check (
    (ended_at is null) = (status not in ('completed', 'failed', 'compensated', 'cancelled', 'continued'))
),
add constraint owned_is_active check (owner is null or status in ('running', 'cancelling', 'compensating'));

alter table {t}.entries
add constraint kind_is_known check (kind ~ '^[sozrmtjxlcpvkuaiybwendqRSCPfg]$'),
add constraint status_is_known check (status in ('d', 'f'));

alter table {t}.waits
add constraint kind_is_known check (kind in ('timer', 'signal', 'topic', 'child', 'retry', 'run'));

alter table {t}.records
add constraint closed_is_never_due check (is_open or due_at is null),
add constraint record_of_a_run_has_its_place check ((run is null) = (location is null));
