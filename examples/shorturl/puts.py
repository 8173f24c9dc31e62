"""Each record becomes a put: the columns data:url, data:name and data:date."""

from __future__ import annotations

from shorturl import FAMILIES, drawn, opened, options, read, run, show
from solus_hbase.streams import PutSink, TableMapping, create_table


def main() -> None:
    given = options(__doc__, "shorturl")
    context = opened(given.hbase)
    create_table(context, given.table, FAMILIES)
    mapping = TableMapping(
        table=given.table, row_key_field="shorturl", column_families={"data": ["url", "name", "date"]}
    )
    written = 0

    def acknowledge(_: object) -> None:
        nonlocal written
        written += 1

    with PutSink(context, mapping) as sink:
        for record in drawn(given.records, given.seed):
            sink.add(record, acknowledge)
    columns = ["url", "name", "date"]
    rows = read(context, given.table, "data", columns)
    show([f"data:{name}" for name in columns], [[value.decode() for value in row] for row in rows])
    print(f"{written} records written and acknowledged")
    context.close()


if __name__ == "__main__":
    run(main)
