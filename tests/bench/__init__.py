"""What of the benchmarks is arithmetic and text: figures, tables, pictures, and the simulation of fleets."""
