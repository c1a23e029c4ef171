package chdb

// LockPath is what Open does first.
var LockPath = lockPath

// MayNice is mayNice.
var MayNice = mayNice
