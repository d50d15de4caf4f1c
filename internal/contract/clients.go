package contract

// A Client is whom a part of the API is made for. The documents show the operations of each together.
type Client struct{ Name, Description string }

// The clients whose contracts the operations are.
var (
	ClientLive       = Client{"Live dashboard", "What the dashboard and bots read: the newest snapshot, its totals and the last minutes. The WebSocket at /ws sends the same; see /docs/events."}
	ClientPast       = Client{"The past", "The stored history. Times are RFC 3339 (seconds and zone may be left out), seconds since 1970, or words such as \"yesterday at 22:00\", \"last night\" or \"1.5h\"."}
	ClientAlerts     = Client{"Alerts", "Alerts, acknowledgments and silences. The WebSocket sends changes of alerts too."}
	ClientAgent      = Client{"Resource agent", "One machine's GPUs, in the resource agent's format."}
	ClientFleet      = Client{"Fleet manager", "The fleet manager's list."}
	ClientCluster    = Client{"Cluster", "GPUs and processes by cluster and node. A machine outside any cluster is in \"local\"."}
	ClientManager    = Client{"GPU manager", "Short list of devices, and the driver."}
	ClientAccess     = Client{"Access", "Accounts, API tokens and sessions: who may do what here. Secrets are shown once, when they are made."}
	ClientAudit      = Client{"Audit", "Who did what, for administrators."}
	ClientHealth     = Client{"Health", "Whether gpuwhy is working."}
	ClientPrometheus = Client{"Prometheus", "For a scraper."}
	ClientDocuments  = Client{"Documents", "These documents in machine-readable form."}
)

// Clients are all of them, in the order of the documents.
var Clients = []Client{ClientLive, ClientPast, ClientAlerts, ClientAgent, ClientFleet, ClientCluster, ClientManager, ClientAccess, ClientAudit, ClientHealth, ClientPrometheus, ClientDocuments}
