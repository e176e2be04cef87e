#: seconds 60
abi
