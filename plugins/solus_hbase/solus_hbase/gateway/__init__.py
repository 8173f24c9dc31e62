"""How HBase is reached: one module for each Thrift interface, and what they share."""
