// Package notify tells people of alerts: it takes changes of alerts, gathers
// them into messages, and sends these through shoutrrr to chats, phones, mail
// and webhooks, again and again until they are delivered or a day old.
//
// Whoever is told stands in a [Config]. Each target has a queue and a goroutine
// of its own, so that one that is dead delays nobody. What waits in the queues
// can be kept over a restart ([Notifier.Keep]).
//
// A target's address is a secret. It is in the memory of this package alone: no
// error, log line, status or kept file has it.
//
// The package leaves to others when something is worth a message (package
// alert), and where the configuration and what is kept are read from.
package notify
