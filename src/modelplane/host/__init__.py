"""What the processes of one machine share: addresses, files, sockets, signals."""
