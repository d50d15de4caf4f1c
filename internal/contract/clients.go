package contract

// A Client is whom a part of the API is made for. The documents show the operations of each together.
type Client struct{ Name, Description string }

// The clients whose contracts the operations are.
var (
	ClientLive       = Client{"Live dashboard", "What the dashboard and bots read: the newest snapshot, its totals, and the last minutes. The same comes over the WebSocket at /ws; see /docs/events."}
	ClientPast       = Client{"The past", "What is kept of the past. Times are RFC 3339, also without seconds or zone, seconds since 1970, or words such as \"yesterday at 22:00\", \"last night\" or \"1.5h\"."}
	ClientAlerts     = Client{"Alerts", "What fires, and what people say of it. News of alerts comes over the WebSocket too."}
	ClientAgent      = Client{"Resource agent", "One machine's GPUs, as the resource agent served them."}
	ClientFleet      = Client{"Fleet manager", "The fleet manager's list."}
	ClientCluster    = Client{"Cluster", "GPUs and processes by cluster and node. A machine that is in no cluster is in \"local\"."}
	ClientManager    = Client{"GPU manager", "Devices in short, and the driver."}
	ClientHealth     = Client{"Health", "Whether gpuwhy does its work."}
	ClientPrometheus = Client{"Prometheus", "For a scraper."}
	ClientDocuments  = Client{"Documents", "These documents for programs."}
)

// Clients are all of them, in the order of the documents.
var Clients = []Client{ClientLive, ClientPast, ClientAlerts, ClientAgent, ClientFleet, ClientCluster, ClientManager, ClientHealth, ClientPrometheus, ClientDocuments}
