//go:build !race && linux && soak

package bench

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// BenchmarkFanOutFull is BenchmarkFanOut with other numbers of viewers and sizes of messages.
func BenchmarkFanOutFull(b *testing.B) {
	for _, viewers := range []int{1000, 5000, 10_000} {
		for _, size := range []int{2000, 16_000, 128_000} {
			if size < 100_000 || viewers == 1000 {
				benchmarkFanOut(b, viewers, size)
			}
		}
	}
}

// BenchmarkTLSFull is BenchmarkTLS with 5,000 viewers and other sizes of messages.
func BenchmarkTLSFull(b *testing.B) {
	for _, size := range []int{2000, 16_000, 57_000} {
		benchmarkTLS(b, 5000, size)
	}
}

// BenchmarkFleetFull is BenchmarkFleet and BenchmarkFleetUnseen with 10,000 nodes.
func BenchmarkFleetFull(b *testing.B) {
	b.Run("seen", func(b *testing.B) { benchmarkFleet(b, 1000, 10_000) })
	b.Run("unseen", func(b *testing.B) { benchmarkUnseen(b, 1000, 10_000) })
}

// BenchmarkScale has three processes, a hub, a NATS server and the agents of many nodes of eight GPUs, and viewers of the page of all nodes:
// 100 and 1,000 nodes every 5 s with 100 viewers, and 10,000 nodes every 60 s with one viewer.
func BenchmarkScale(b *testing.B) {
	before := scale(b, 100, 100, 5*time.Second, nil)
	scale(b, 1000, 100, 5*time.Second, before)
	scale(b, 10_000, 1, time.Minute, nil)
}

// BenchmarkSlowViewers compares 10,000 viewers, of which 1,000 never read and 100 read 200
// bytes a second, with 8,900 good viewers alone. It publishes 16 kB twice a second to both by
// turns, and measures whether the good viewers get every message, how long after the first
// the last of them has it, the hub's peak memory, and when it has dropped those that do not
// read.
func BenchmarkSlowViewers(b *testing.B) {
	const (
		good, deaf, slow = 8900, 1000, 100
		size             = 16_000
	)
	alone, among := gather(b, kindHub, good, size), gather(b, kindHub, good, size)
	base, before := among.server.descriptors(), among.server.anonymous()
	among.crowd(deaf, doesNothing)
	among.crowd(slow, doesTrickle)
	var calm, crowded []float64
	begun, peak, left, gone := time.Now(), before, 0, time.Duration(0)
	for time.Since(begun) < 90*time.Second {
		next := time.Now().Add(500 * time.Millisecond)
		calm = append(calm, alone.publish(size).Seconds()*1e3)
		crowded = append(crowded, among.publish(size).Seconds()*1e3) // it fails if one of the others does not get it
		peak = max(peak, among.server.anonymous())
		if left = among.server.descriptors() - base; left == 0 && gone == 0 {
			gone = time.Since(begun)
		}
		time.Sleep(time.Until(next)) // the pace is part of what is measured
	}
	if left > 0 {
		b.Errorf("%d of those that do not read are still connected", left)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(crowded), "ms-spread")
	b.ReportMetric(median(quotients(crowded, calm)), "x-alone-spread")
	b.ReportMetric((peak-before)/(deaf+slow), "kB/slow-viewer-at-most")
	b.ReportMetric(gone.Seconds(), "s-until-gone")
}

// BenchmarkComingAndGoing lets 500 viewers a second connect to the hub and leave, for a
// minute, while 1,000 stay and get messages. It measures what remains of those that left, in
// all and from the second half minute.
func BenchmarkComingAndGoing(b *testing.B) {
	s := gather(b, kindHub, 1000, 16_000)
	guests, came, peak, cpu := s.crowd(0, doesCome), 0, 0.0, time.Duration(0)
	memory, descriptors := s.server.anonymous(), s.server.descriptors()
	goroutines := 0
	left := []float64{memory}
	for range 2 {
		before := s.server.cpu()
		for range 6 {
			var n int
			guests.ask(&n, "come 500 5")
			came += n
			s.publish(16_000)
			peak = max(peak, s.server.anonymous())
		}
		cpu += s.server.cpu() - before
		for begun := time.Now(); s.server.descriptors() > descriptors && time.Since(begun) < time.Minute; {
			time.Sleep(100 * time.Millisecond)
		}
		var h health
		s.server.ask(&h, "settle")
		goroutines, left = h.Goroutines-s.health.Goroutines, append(left, s.server.anonymous())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(came)/60, "viewers/s")
	b.ReportMetric(cpu.Seconds()*1e6/float64(came), "us-cpu/viewer")
	b.ReportMetric(float64(goroutines), "goroutines-left")
	b.ReportMetric(float64(s.server.descriptors()-descriptors), "descriptors-left")
	b.ReportMetric(left[1]-left[0], "kB-left")
	b.ReportMetric(left[2]-left[1], "kB-left-later")
	b.ReportMetric(peak-memory, "kB-meanwhile")
}

// BenchmarkRequests lets 1,000 viewers of the whole program each send request_gpu_update
// once a second. It measures how long they wait, and how many readings that takes.
func BenchmarkRequests(b *testing.B) {
	const viewers, seconds = 1000, 30
	program, addr := gpuwhy(b, eight, "--interval=1h", fmt.Sprintf("--max-viewers=%d", viewers))
	var connected int
	crowd := begin(b, role{Crowd: &crowdConfig{Addr: addr, Path: "/ws", Viewers: viewers, Does: doesAsk}}, &connected)
	cpu := program.cpu()
	var a answers
	crowd.ask(&a, "ask %d", seconds)
	if a.Got != a.Asked || a.TooOld > 0 {
		b.Errorf("%d of %d requests were answered, %d by a reading that began before", a.Got, a.Asked, a.TooOld)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(a.Asked)/seconds, "requests/s")
	b.ReportMetric(float64(a.Readings)/seconds, "readings/s")
	b.ReportMetric(median(a.Waits).Seconds()*1e3, "ms-wait")
	b.ReportMetric(a.Waits[len(a.Waits)*99/100].Seconds()*1e3, "ms-wait-p99")
	b.ReportMetric(a.Waits[len(a.Waits)-1].Seconds()*1e3, "ms-wait-at-most")
	b.ReportMetric((program.cpu()-cpu).Seconds()*1e6/float64(a.Got), "us-cpu/answer")
}

// BenchmarkProgram runs the whole program with 64 GPUs on eight nodes, read every 5 s, and
// 10,000 viewers that get the readings of each node, for a minute and a half.
func BenchmarkProgram(b *testing.B) {
	const viewers, seconds = 10_000, 90
	program, addr := gpuwhy(b, "fleet:64", "--interval=5s", fmt.Sprintf("--max-viewers=%d", viewers))
	time.Sleep(10 * time.Second) // it reads twice
	before := program.anonymous()
	var connected int
	var got counted
	crowd := begin(b, role{Crowd: &crowdConfig{Addr: addr, Path: "/ws", Viewers: viewers, Does: doesRead}}, &connected)
	cpu := program.cpu()
	crowd.ask(&got, "count %d", seconds)
	ran := program.cpu() - cpu
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(got.Messages)/seconds, "messages/s")
	b.ReportMetric(ran.Seconds()*1e6/float64(got.Messages), "us-cpu/msg")
	b.ReportMetric((program.anonymous()-before)/viewers, "kB/viewer")
	b.ReportMetric(program.value("status", "VmRSS")/1e3, "MB-rss")
	b.ReportMetric(program.value("status", "VmHWM")/1e3, "MB-rss-at-most")
}

// BenchmarkHostile has 300 viewers of the whole program that get each reading, beside 1,000 hostile connections. It measures
// the most that these take, and when all of them are gone.
func BenchmarkHostile(b *testing.B) {
	const good, bad, late = 300, 1000, time.Minute
	for _, does := range []string{doesConnect, doesDrip, doesPour, doesVanish} {
		b.Run("does="+does, func(b *testing.B) {
			program, addr := gpuwhy(b, eight, "--interval=1s", fmt.Sprintf("--max-viewers=%d", good+bad))
			goroutines := func() float64 {
				resp, err := http.Get("http://" + addr + "/metrics")
				if err != nil {
					b.Fatal(err)
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				n, ok := after(text, "\ngo_goroutines ")
				if err != nil || !ok {
					b.Fatalf("no number of goroutines: %v", err)
				}
				return float64(n)
			}
			var connected int
			var got counted
			viewers := begin(b, role{Crowd: &crowdConfig{Addr: addr, Path: "/ws", Viewers: good, Does: doesRead}}, &connected)
			goroutines()
			viewers.ask(&got, "count 5")
			descriptors, memory, before := program.descriptors(), program.anonymous(), goroutines()
			begin(b, role{Crowd: &crowdConfig{Addr: addr, Path: "/ws", Viewers: bad, Does: does}}, &connected)
			begun, gone := time.Now(), time.Duration(0)
			var connections int
			var taken, running float64
			for gone == 0 && time.Since(begun) < late {
				now := program.descriptors() - descriptors
				connections, taken, running = max(connections, now), max(taken, program.anonymous()-memory), max(running, goroutines()-before)
				if now <= 2 { // a scrape's may be open
					gone = time.Since(begun)
				}
				time.Sleep(200 * time.Millisecond)
			}
			viewers.ask(&got, "count 2")
			if gone == 0 || got.Missed > 0 || got.Messages < good {
				b.Errorf("gone after %v; the others missed %d, and got %d in 2 s", gone, got.Missed, got.Messages)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(connections), "connections-at-most")
			b.ReportMetric(running/bad, "goroutines/connection-at-most")
			b.ReportMetric(taken/bad, "kB/connection-at-most")
			b.ReportMetric(gone.Seconds(), "s-until-gone")
		})
	}
}
