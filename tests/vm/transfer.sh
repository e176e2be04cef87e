#: seconds 60
transfer
