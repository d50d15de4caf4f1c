package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"html"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

func adjustMail(a *address, s *service) {
	if a.yes("no", "usehtml") {
		s.escape = html.EscapeString
	}
}

func sendMail(ctx context.Context, a *address, title, text string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // go-mail leaves the connection open if TLS or authentication fails
	client, mails, err := newMail(ctx, a, title, text)
	if err != nil {
		return err
	}
	err = client.DialAndSendWithContext(ctx, mails...)
	for _, m := range mails {
		if !m.IsDelivered() {
			return cmp.Or(err, errMail)
		}
	}
	return nil // whatever failed after the delivery
}

var errMail = errors.New("the mail was not sent")

// newMail returns a mail to each recipient and a client for their server. Its connection ends with
// ctx, so a silent server blocks nobody.
func newMail(ctx context.Context, a *address, title, text string) (*mail.Client, []*mail.Msg, error) {
	sender, name, asHTML := plus(a.text("fromaddress", "from")), a.text("fromname"), a.yes("no", "usehtml")
	port, err := strconv.Atoi(cmp.Or(a.Port(), "25"))
	timeout, badTimeout := time.ParseDuration(a.or("10s", "timeout"))
	err = errors.Join(err, badTimeout)
	var mails []*mail.Msg
	for _, recipient := range a.list("toaddresses", "to") {
		m := mail.NewMsg()
		err = errors.Join(err, m.FromFormat(name, sender), m.To(plus(recipient)))
		m.SetUserAgent("gpuwhy")
		m.Subject(title)
		m.SetBodyString(mail.TypeTextPlain, text)
		if asHTML {
			m.AddAlternativeString(mail.TypeTextHTML, "<pre>"+text+"</pre>")
		}
		mails = append(mails, m)
	}
	if err != nil || len(mails) == 0 {
		return nil, nil, cmp.Or(err, errMail)
	}
	secure := &tls.Config{
		ServerName: a.Hostname(), MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: a.yes("no", "skiptlsverify"), //nolint:gosec // as the URL asks for
	}
	dial := (&net.Dialer{}).DialContext
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(timeout), mail.WithoutNoop(), mail.WithTLSConfig(secure),
		mail.WithUsername(a.user), mail.WithPassword(a.password), mail.WithTLSPolicy(mail.TLSOpportunistic),
	}
	encryption := a.oneOf("None|ExplicitTLS|ImplicitTLS|Auto", "Auto", "encryption")
	startTLS, mustTLS := a.yes("yes", "usestarttls", "starttls"), a.yes("no", "requirestarttls")
	switch {
	case encryption == "ImplicitTLS", encryption == "Auto" && port == 465:
		dial = (&tls.Dialer{Config: secure}).DialContext
		options = append(options, mail.WithSSL())
	case !startTLS:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case mustTLS:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if host := a.or("localhost", "clienthost"); host != "auto" {
		options = append(options, mail.WithHELO(host))
	}
	switch auth := a.oneOf("None|Plain|CRAMMD5|OAuth2|Unknown", "Unknown", "auth"); {
	case auth == "Plain", auth == "Unknown" && a.user != "":
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthPlain))
	case auth == "CRAMMD5":
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthCramMD5))
	case auth == "OAuth2":
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthXOAUTH2))
	}
	options = append(options, mail.WithDialContextFunc(func(dialing context.Context, network, server string) (net.Conn, error) {
		conn, err := dial(dialing, network, server)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}))
	if a.ignore("subject"); a.bad || len(a.rest) > 0 {
		return nil, nil, errNoAddress
	}
	client, err := mail.NewClient(a.Hostname(), options...)
	return client, mails, err
}

// plus gives a mail address back its plus signs, which are spaces in a query.
func plus(address string) string { return strings.ReplaceAll(address, " ", "+") }
