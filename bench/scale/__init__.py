"""How far one database goes: service times measured here, and a simulation of many workers over them."""
