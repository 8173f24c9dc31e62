"""Each record raises two counters of its row: data:clicks and the day, as daily:20120816. At least once."""

from __future__ import annotations

from collections import Counter

from shorturl import DATE, FAMILIES, RECORDS, drawn, number, opened, options, read, run, show
from solus_hbase.streams import CounterSink, TableMapping, create_table


def main() -> None:
    given = options(__doc__, "shorturl_counters")
    context = opened(given.hbase)
    create_table(context, given.table, FAMILIES)
    mapping = TableMapping(
        table=given.table,
        row_key_field="shorturl",
        # "clicks" is no field of a record and stands for itself; "date" is one and stands for its value.
        column_families={"data": ["clicks"], "daily": ["date"]},
    )
    truth: Counter[str] = Counter()
    with CounterSink(context, mapping) as sink:
        before = read(context, given.table, "data", ["clicks"])
        for record in drawn(given.records, given.seed):
            truth[record["shorturl"]] += 1
            sink.add(record)
    clicks = read(context, given.table, "data", ["clicks"])
    days = read(context, given.table, "daily", [DATE])
    rows = [
        [*map(number, (*now, *day, *old)), truth[record["shorturl"]]]
        for record, now, day, old in zip(RECORDS, clicks, days, before, strict=True)
    ]
    show(["data:clicks", f"daily:{DATE}", "clicks before", "records"], rows)
    context.close()


if __name__ == "__main__":
    run(main)
