package lobby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// diagnosis is a socket to ask the kernel about sockets. Questions go one at a
// time; each takes some microseconds.
var diagnosis struct {
	mu sync.Mutex
	fd int // 0: not open yet
}

const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	established      = 1  // TCP_ESTABLISHED
	questionBytes    = 16 + 56
	answerBytes      = 16 + 72
)

// socketUser asks the kernel whose the socket is that is bound to local and
// connected to remote.
func socketUser(local, remote netip.AddrPort) (int, error) {
	d := &diagnosis
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd == 0 {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		// The kernel answers at once, or something is very wrong.
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
			return 0, errors.Join(err, unix.Close(fd))
		}
		d.fd = fd
	}
	uid, err := ask(d.fd, unmapped(local), unmapped(remote))
	if err != nil && !errors.Is(err, errElsewhere) {
		// An answer that comes late must not be taken for the next.
		_ = unix.Close(d.fd) // nothing was written to it that could be lost
		d.fd = 0
	}
	return uid, err
}

// ask sends one question and reads its answer.
func ask(fd int, local, remote netip.AddrPort) (int, error) {
	if err := unix.Sendto(fd, question(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	b := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return answer(b[:n])
}

// question is a netlink message with an inet_diag_req_v2 for one socket.
func question(local, remote netip.AddrPort) []byte {
	b := make([]byte, questionBytes)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], questionBytes)
	ne.PutUint16(b[4:], sockDiagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	req := b[16:]
	req[0], req[1] = unix.AF_INET, unix.IPPROTO_TCP
	if local.Addr().Is6() {
		req[0] = unix.AF_INET6
	}
	ne.PutUint32(req[4:], 1<<established)
	binary.BigEndian.PutUint16(req[8:], local.Port())
	binary.BigEndian.PutUint16(req[10:], remote.Port())
	copy(req[12:28], local.Addr().AsSlice())
	copy(req[28:44], remote.Addr().AsSlice())
	ne.PutUint64(req[48:], ^uint64(0)) // any cookie
	return b
}

// answer reads whose socket an inet_diag_msg is about. One that is not
// established may be nobody's any more, and is then reported as root's.
func answer(b []byte) (int, error) {
	ne := binary.NativeEndian
	if len(b) < 20 {
		return 0, fmt.Errorf("%w: the kernel's answer is cut off", ErrUnknown)
	}
	switch ne.Uint16(b[4:]) {
	case unix.NLMSG_ERROR:
		switch errno := unix.Errno(-int32(ne.Uint32(b[16:]))); errno {
		case unix.ENOENT, unix.ESTALE:
			return 0, errElsewhere
		default:
			return 0, fmt.Errorf("%w: %w", ErrUnknown, errno)
		}
	case sockDiagByFamily:
		if len(b) < answerBytes {
			return 0, fmt.Errorf("%w: the kernel's answer is cut off", ErrUnknown)
		}
		msg := b[16:]
		if msg[1] != established {
			return 0, errElsewhere
		}
		return int(ne.Uint32(msg[64:])), nil
	}
	return 0, fmt.Errorf("%w: the kernel answers something else", ErrUnknown)
}
