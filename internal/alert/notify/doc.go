// Package notify sends messages about alerts: it takes changes of alerts, gathers
// them into messages, and sends these to chats, phones, mail and webhooks, again
// and again until they are delivered or a day old.
//
// A [Config] says who gets messages. Each target has a queue and a goroutine of
// its own, so that a dead target delays no other. What waits in the queues can be
// kept over a restart ([Notifier.Keep]).
//
// A target's address is a secret. It is only in the memory of this package, and in no
// error, log line, status or kept file.
//
// Package alert decides which changes there are. The caller decides where the
// configuration and the kept file are.
package notify
