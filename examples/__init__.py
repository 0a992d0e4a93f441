"""Small programs to read, run and copy: `python examples/order_saga.py`. Each needs nothing but stepwell."""
