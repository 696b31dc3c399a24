"""What the processes of one machine share: addresses, private files, sockets, signals."""
